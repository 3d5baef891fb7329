# Templates with the functions of Consul, which read services and variables of the region.
# run
job "template_consul" {
  type = "batch"

  group "g" {
    task "t" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "test \"$(cat local/page)\" = 'no limit, dc1, 0 0'"]
      }

      template {
        destination = "local/page"
        data        = <<-END
          {{- keyOrDefault "app/limit" "no limit" }}, {{ range datacenters }}{{ . }}{{ end }}, {{ service "nosuch" | len }}
          {{- range services }}{{ if eq .Name "nosuch" }}{{ .Tags | join "," }}{{ end }}{{ end }} {{ tree "app" | len -}}
        END
      }

      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
