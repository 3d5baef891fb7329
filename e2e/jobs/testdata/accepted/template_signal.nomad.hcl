# A signal after a change.
# run
job "template_signal" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "true"]
      }
      template {
        data          = "a"
        destination   = "local/a"
        change_mode   = "signal"
        change_signal = "SIGUSR1"
        once          = true
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
