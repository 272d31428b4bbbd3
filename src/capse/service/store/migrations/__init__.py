"""One file per version of the schema, run by Alembic. A file that was released is never changed again."""
