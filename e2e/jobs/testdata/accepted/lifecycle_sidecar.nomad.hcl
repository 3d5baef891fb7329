# A task that runs beside the others, and one that begins after them.
# run
job "lifecycle_sidecar" {
  type = "batch"
  group "g" {
    task "side" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "exec sleep 300"]
      }
      lifecycle {
        hook    = "prestart"
        sidecar = true
      }
      kill_timeout = "1s"
      resources {
        cpu    = 10
        memory = 16
      }
    }
    task "late" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "true"]
      }
      lifecycle {
        hook = "poststart"
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "sleep 1"]
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
