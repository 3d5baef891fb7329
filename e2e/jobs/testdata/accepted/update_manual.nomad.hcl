# Health that an operator sets.
job "update_manual" {
  type = "service"
  update {
    health_check      = "manual"
    progress_deadline = "0s"
  }
  group "g" {
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
