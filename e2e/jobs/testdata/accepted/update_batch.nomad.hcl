# An update block of a batch job has no effect.
# run
# warns: update has no effect on batch and sysbatch jobs
job "update_batch" {
  type = "batch"
  update {
    max_parallel = 1
  }
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
