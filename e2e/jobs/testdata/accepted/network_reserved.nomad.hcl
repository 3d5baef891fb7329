# The old form of a static port.
# run
job "network_reserved" {
  type = "batch"
  group "g" {
    network {
      reserved_ports "ssh" {
        static = 28654
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
