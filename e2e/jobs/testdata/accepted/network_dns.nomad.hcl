# A resolver of the group has no effect on raw_exec.
# warns: the dns block of the group has no effect
job "network_dns" {
  type = "batch"
  group "g" {
    network {
      mode = "bridge"
      dns {
        servers  = ["192.0.2.53"]
        searches = ["corp.example"]
        options  = ["ndots:2"]
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
