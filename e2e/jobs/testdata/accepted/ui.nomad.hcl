# A description and links for the web page of the job.
# run
job "ui" {
  type = "batch"
  ui {
    description = "A **job**."
    link {
      label = "Docs"
      url   = "https://docs.example"
    }
  }
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "true"]
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
