# A host name with a reference.
job "network_hostname" {
  type = "batch"
  group "g" {
    network {
      mode     = "bridge"
      hostname = "web-${NOMAD_ALLOC_INDEX}"
    }
    task "t" {
      driver = "exec2"
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
