# Environment variables that refer to the node and to others.
# run
job "env" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "test $DC = dc1 -a \"$NAME\" = t"]
      }
      env {
        DC   = "${node.datacenter}"
        NAME = "${NOMAD_TASK_NAME}"
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
