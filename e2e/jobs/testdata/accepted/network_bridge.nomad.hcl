# A task of raw_exec on the bridge.
job "network_bridge" {
  type = "batch"
  group "g" {
    network {
      mode = "bridge"
      port "http" {
        to = 80
      }
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
