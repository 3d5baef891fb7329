# The short forms of constraints.
# run
job "constraint_short" {
  type = "batch"
  group "g" {
    constraint {
      attribute = "${attr.cpu.numcores}"
      version   = ">= 1"
    }
    constraint {
      attribute = "${attr.kernel.name}"
      regexp    = "^linux$"
    }
    constraint {
      distinct_hosts = true
    }
    constraint {
      distinct_property = "${node.datacenter}"
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
