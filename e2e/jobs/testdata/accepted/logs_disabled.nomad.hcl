# A task without logs.
# run
job "logs_disabled" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "true"]
      }
      logs {
        disabled = true
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
