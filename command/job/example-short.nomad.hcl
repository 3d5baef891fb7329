job "example" {
  group "web" {
    network {
      port "http" {}
    }

    task "server" {
      driver = "exec2"

      identity {
        env  = true
        file = true
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "echo listening on $NOMAD_ADDR_http as $USER; exec sleep infinity"]
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
