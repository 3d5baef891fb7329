# A job that is dispatched with a payload.
job "parameterized" {
  type = "batch"
  parameterized {
    payload       = "required"
    meta_required = ["input"]
    meta_optional = ["level"]
  }
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "true"]
      }
      dispatch_payload {
        file = "input.json"
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
