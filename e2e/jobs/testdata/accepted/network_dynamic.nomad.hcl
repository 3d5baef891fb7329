# A dynamic port on the network of the node.
# run
job "network_dynamic" {
  type = "batch"
  group "g" {
    network {
      port "http" {}
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "test $NOMAD_PORT_http = $NOMAD_HOST_PORT_http"]
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
