# A network without connections.
job "network_none" {
  type = "batch"
  group "g" {
    network {
      mode = "none"
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
