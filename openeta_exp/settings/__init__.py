"""The shape of conf/: frozen pydantic, one class per option of a group, told apart by `kind`."""
