# The size of the secrets directory.
# run
job "resources_secrets" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "true"]
      }
      resources {
        cpu     = 10
        memory  = 32
        secrets = 4
      }
    }
  }
}
