# Old arguments of a network have no effect.
# run
# warns: mbits of network has no effect
job "network_mbits" {
  type = "batch"
  group "g" {
    network {
      mbits = 100
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
