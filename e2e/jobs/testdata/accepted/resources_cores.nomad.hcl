# Cores instead of a share of the processors.
# run
job "resources_cores" {
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
      }
    }
  }
}
