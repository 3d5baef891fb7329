# An identity for another service.
# run
job "identity_named" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "test -s secrets/nomad_cloud.jwt"]
      }
      identity {
        name          = "cloud"
        aud           = ["cloud.example"]
        ttl           = "1h"
        file          = true
        change_mode   = "signal"
        change_signal = "SIGHUP"
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
