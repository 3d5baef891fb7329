# How a task is stopped.
job "kill" {
  type = "service"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "exec sleep 300"]
      }
      kill_signal    = "SIGUSR2"
      kill_timeout   = "30s"
      shutdown_delay = "2s"
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
