# A delay at the end of a group.
job "shutdown_delay" {
  type = "service"
  group "g" {
    shutdown_delay = "3s"
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "exec sleep 300"]
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
