# Arguments of the job.
# run
job "job_arguments" {
  type        = "batch"
  region      = "global"
  namespace   = "default"
  datacenters = ["dc*"]
  node_pool   = "default"
  priority    = 70
  all_at_once = true
  name        = "a name"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "true"]
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
