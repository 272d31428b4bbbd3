"""The paper's tables and figures from recorded runs, with the paper's figures beside ours."""
