# A spread with targets.
# run
job "spread_targets" {
  type = "batch"
  spread {
    attribute = "${node.datacenter}"
    weight    = 80
    target "dc1" {
      percent = 70
    }
    target "dc2" {
      percent = 30
    }
  }
  group "g" {
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
