# The identity of the task in the environment and in a file.
# run
job "identity_default" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "test -n \"$NOMAD_TOKEN\" -a -s secrets/nomad_token"]
      }
      identity {
        env  = true
        file = true
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
