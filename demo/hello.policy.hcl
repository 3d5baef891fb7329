# What the tasks of the job hello may do with their own tokens, beyond reading the
# variables of their job.
namespace "default" {
  capabilities = ["read-job"]
}
