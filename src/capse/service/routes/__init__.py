"""Our endpoints: one file per resource, registered in `capse.service.endpoints`."""
