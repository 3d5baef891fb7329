# Rights of the tasks of the job hello with their own tokens, in addition to reading the variables
# of their job.
namespace "default" {
  capabilities = ["read-job"]
}
