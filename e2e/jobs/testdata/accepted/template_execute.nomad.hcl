# A template that executes another one of the same text.
# run
job "template_execute" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "test \"$(cat local/out)\" = \"<A><B>\""]
      }
      template {
        destination = "local/out"
        data        = <<EOT
{{ define "row" }}<{{ . }}>{{ end }}{{ range $v := split "," "a,b" }}{{ executeTemplate "row" $v | toUpper }}{{ end }}
EOT
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
