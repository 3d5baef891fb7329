# An example job. Run it with: nomad job run example.nomad.hcl

job "example" {
  # service: runs until it is stopped. batch: runs to completion.
  # system and sysbatch: the same, once on every node.
  type = "service"

  # A group is placed as one: its tasks share a node and a directory.
  group "web" {
    count = 1

    network {
      # A port of the node, chosen by the scheduler; the task finds it in
      # NOMAD_PORT_http.
      port "http" {}
    }

    # How often a task that fails is started again on the same node.
    restart {
      attempts = 2
      interval = "30m"
      delay    = "15s"
      mode     = "fail"
    }

    task "server" {
      # exec2 runs the command in a sandbox: a user of its own, and only the
      # paths that it needs.
      driver = "exec2"

      # A signed token that says which task this is, in a file and as NOMAD_TOKEN.
      identity {
        env  = true
        file = true
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "echo listening on $NOMAD_ADDR_http as $USER; exec sleep infinity"]
      }

      resources {
        cpu    = 100 # MHz
        memory = 64  # MiB
      }
    }
  }
}
