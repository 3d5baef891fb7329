# A port of another number on the network of the node: nothing is forwarded.
# run
# warns: nothing is forwarded
job "network_to" {
  type = "batch"
  group "g" {
    network {
      port "http" {
        to = 8080
      }
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "test $NOMAD_PORT_http = 8080 -a $NOMAD_HOST_PORT_http != 8080"]
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
