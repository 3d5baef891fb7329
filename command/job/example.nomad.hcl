# An example job. Run it with: nomad job run example.nomad.hcl

job "example" {
  # A service job runs until it is stopped, a batch job until it is complete.
  # system and sysbatch jobs do the same on every node.
  type = "service"

  # The tasks of a group run on the same node and share a directory.
  group "web" {
    count = 1

    network {
      # A dynamic port of the node. The task reads it from NOMAD_PORT_http.
      port "http" {}
    }

    # How often a failed task restarts on the same node.
    restart {
      attempts = 2
      interval = "30m"
      delay    = "15s"
      mode     = "fail"
    }

    task "server" {
      # exec2 runs the command in a sandbox with its own user. The command can
      # access only the paths that it needs.
      driver = "exec2"

      # A signed token that identifies the task, in a file and in NOMAD_TOKEN.
      identity {
        env  = true
        file = true
      }

      # A token of Vault or OpenBao, in a file and in VAULT_TOKEN.
      # vault {}

      # The items of a variable, or a secret of Vault: ${secret.db.password} in
      # the fields of this task. Other ways: a template with nomadVar or secret.
      # secret "db" {
      #   provider = "nomad"
      #   path     = "nomad/jobs/example"
      # }

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
