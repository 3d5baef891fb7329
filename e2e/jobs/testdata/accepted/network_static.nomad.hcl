# A static port, with a host network and the same number twice.
# run
job "network_static" {
  type = "batch"
  group "g" {
    network {
      mode = "host"
      port "dns" {
        static       = 28653
        host_network = "default"
      }
      port "dns2" {
        static           = 28653
        ignore_collision = true
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
