# A task that runs after the others.
# run
job "lifecycle_poststop" {
  type = "batch"
  group "g" {
    task "after" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "true"]
      }
      lifecycle {
        hook = "poststop"
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
        args    = ["-c", "true"]
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
