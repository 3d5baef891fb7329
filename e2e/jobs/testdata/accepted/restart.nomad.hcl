# The restart policy of a group.
# run
job "restart" {
  type = "batch"
  group "g" {
    restart {
      attempts         = 2
      interval         = "1m"
      delay            = "5s"
      mode             = "delay"
      render_templates = true
    }
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
