# A variable has items, which tasks and operators read. Write it with:
#
#   nomad var put @spec.nv.hcl

# -namespace overrides the namespace.
# namespace = "default"

# Without a policy, a task can read nomad/jobs, nomad/jobs/<job>,
# nomad/jobs/<job>/<group> and nomad/jobs/<job>/<group>/<task>.
path = "nomad/jobs/example"

# Write only if the modify index of the variable is equal.
# modify_index = 0

# At most 64 KiB of names and values.
items = {
  user     = "example"
  password = "change me"
}
