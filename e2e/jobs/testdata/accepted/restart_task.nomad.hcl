# A policy of a task whose attempts do not fit in its interval.
# run
# warns: so the task is restarted without limit
job "restart_task" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "true"]
      }
      restart {
        attempts = 2
        interval = "10s"
        delay    = "15s"
        mode     = "fail"
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
