# A limit of the time of a batch job.
# run
job "max_run_duration" {
  type = "batch"
  group "g" {
    max_run_duration = "1h"
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
