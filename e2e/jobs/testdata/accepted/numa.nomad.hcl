# Locality of cores that is not needed.
# run
job "numa" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "true"]
      }
      resources {
        cores  = 1
        memory = 16
        numa {
          affinity = "none"
        }
      }
    }
  }
}
