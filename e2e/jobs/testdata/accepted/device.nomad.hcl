# A device that no node has.
job "device" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "exec2"
      config {
        command = "/bin/sh"
        args    = ["-c", "true"]
      }
      resources {
        cpu    = 10
        memory = 16
        device "vendor/gpu" {
          count = 2
          constraint {
            attribute = "${device.attr.memory}"
            operator  = ">="
            value     = "2 GiB"
          }
          affinity {
            attribute = "${device.model}"
            value     = "big"
            weight    = 50
          }
        }
      }
    }
  }
}
