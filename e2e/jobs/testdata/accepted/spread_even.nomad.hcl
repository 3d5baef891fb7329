# A spread without targets, and with the default weight.
# run
job "spread_even" {
  type = "batch"
  group "g" {
    spread {
      attribute = "${node.unique.id}"
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
