# The old network block in the resources of a task.
# run
# warns: network in resources is deprecated
job "network_of_task" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "test -n \"$NOMAD_PORT_http\" -a -n \"$NOMAD_ADDR_http\""]
      }
      resources {
        cpu    = 10
        memory = 16
        network {
          mbits = 10
          port "http" {}
          port "admin" {
            static = 28655
          }
        }
      }
    }
  }
}
