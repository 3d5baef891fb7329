# The main job: a sandboxed task that prints its identity and tries to access other secrets.
variable "nomad" {
  type        = string
  description = "Path of the nomad program, which the task uses to speak to the API."
}

job "hello" {
  type = "batch"

  group "hello" {
    # A neighbour with its own secrets, which the other task must not read.
    task "neighbour" {
      driver = "exec2"

      lifecycle {
        hook    = "prestart"
        sidecar = true
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "echo secret-of-the-neighbour > $NOMAD_SECRETS_DIR/own; sleep infinity"]
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }

    task "hello" {
      driver = "exec2"

      restart {
        attempts = 0
        mode     = "fail"
      }

      # A token that identifies the task: as NOMAD_TOKEN, and as a file.
      identity {
        env  = true
        file = true
      }

      # A page made from the variable of the job. A program in the sandbox of the task reads the
      # variable with the task's own token, and again when it changes.
      template {
        destination = "local/page.html"
        data        = "<h1>{{ with nomadVar \"nomad/jobs/hello\" }}{{ .greeting }}{{ end }}</h1>\n"
        change_mode = "noop"

        wait {
          min = "0s"
          max = "0s"
        }
      }

      config {
        command = "/bin/sh"
        args = ["-c", <<EOT
          say() { printf '\n-- %s\n' "$1"; }
          b64() { s=$(tr '_-' '/+'); case $(($${#s} % 4)) in 2) s="$s==";; 3) s="$s=";; esac; printf %s "$s" | base64 -d; }

          say 'my claims, from the token in my secrets directory'
          cut -d. -f2 < "$NOMAD_SECRETS_DIR/nomad_token" | tr -d '\n' | b64; echo

          say 'my user'
          id

          say 'what I cannot reach'
          for f in /etc/passwd /etc/shadow "$NOMAD_SECRETS_DIR/../../neighbour/secrets/own" /root; do
            if cat "$f" > /dev/null 2>&1 || ls "$f/." > /dev/null 2>&1; then echo "READABLE: $f"; sandbox=broken; else echo "denied: $f"; fi
          done

          say 'the API, asked with my own token over the socket in my secrets directory'
          NOMAD_ADDR="$NOMAD_UNIX_ADDR" ${var.nomad} alloc status -short "$NOMAD_ALLOC_ID"

          say 'and without it'
          NOMAD_TOKEN= NOMAD_ADDR="$NOMAD_UNIX_ADDR" ${var.nomad} status 2>&1

          say 'the variable of my job, read with my own token'
          NOMAD_ADDR="$NOMAD_UNIX_ADDR" ${var.nomad} var get -item greeting nomad/jobs/hello || sandbox=broken

          say 'the variable of another job'
          NOMAD_ADDR="$NOMAD_UNIX_ADDR" ${var.nomad} var get nomad/jobs/other 2>&1 && sandbox=broken

          say 'what my policy does not give me'
          NOMAD_ADDR="$NOMAD_UNIX_ADDR" ${var.nomad} job stop hello 2>&1 && sandbox=broken

          say 'my page, rendered from the variable'
          cat local/page.html
          touch "$NOMAD_ALLOC_DIR/data/shown"

          # Secrets are removed with the task: give the demo a moment to read the token, and to change
          # the variable.
          for i in $(seq 25); do [ -e "$NOMAD_ALLOC_DIR/data/looked" ] || sleep 0.2; done

          if [ -e "$NOMAD_ALLOC_DIR/data/looked" ]; then
            say 'my page, after the variable has changed'
            for i in $(seq 50); do grep -q changed local/page.html || sleep 0.2; done
            grep changed local/page.html || sandbox=broken
          fi
          test -z "$sandbox"
        EOT
        ]
        unveil = ["rx:${var.nomad}"]
      }

      resources {
        cpu    = 200
        memory = 128
      }
    }
  }
}
