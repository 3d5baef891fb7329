# Affinities of the job, the group and the task.
# run
job "affinity" {
  type = "batch"
  affinity {
    attribute = "${node.datacenter}"
    value     = "dc1"
    weight    = 100
  }
  group "g" {
    affinity {
      attribute = "${attr.cpu.numcores}"
      version   = ">= 1"
      weight    = -50
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "true"]
      }
      affinity {
        attribute = "${node.class}"
        operator  = "!="
        value     = "slow"
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
