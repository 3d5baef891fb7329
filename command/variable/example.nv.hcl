# A variable: names and values that tasks and operators read. Store it with
#
#   nomad var put @spec.nv.hcl

# The namespace, unless -namespace says otherwise.
# namespace = "default"

# A task reads nomad/jobs, nomad/jobs/<job>, nomad/jobs/<job>/<group> and
# nomad/jobs/<job>/<group>/<task> of its own by its identity.
path = "nomad/jobs/example"

# Store it only while the variable still has this modify index.
# modify_index = 0

# Up to 64 KiB of names and values.
items = {
  user     = "example"
  password = "change me"
}
