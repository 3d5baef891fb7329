# The operators of constraints.
# run
job "constraint_operators" {
  type = "batch"
  group "g" {
    constraint {
      attribute = "${attr.kernel.name}"
      operator  = "="
      value     = "linux"
    }
    constraint {
      attribute = "${attr.kernel.name}"
      operator  = "is"
      value     = "linux"
    }
    constraint {
      attribute = "${attr.kernel.name}"
      operator  = "!="
      value     = "windows"
    }
    constraint {
      attribute = "${attr.cpu.numcores}"
      operator  = ">="
      value     = "1"
    }
    constraint {
      attribute = "${attr.cpu.numcores}"
      operator  = "version"
      value     = ">= 1"
    }
    constraint {
      attribute = "${attr.kernel.name}"
      operator  = "regexp"
      value     = "^lin"
    }
    constraint {
      attribute = "${attr.kernel.name}"
      operator  = "set_contains"
      value     = "linux"
    }
    constraint {
      attribute = "${attr.kernel.name}"
      operator  = "set_contains_any"
      value     = "linux,bsd"
    }
    constraint {
      attribute = "${attr.kernel.name}"
      operator  = "is_set"
    }
    constraint {
      attribute = "${meta.nothing}"
      operator  = "is_not_set"
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
