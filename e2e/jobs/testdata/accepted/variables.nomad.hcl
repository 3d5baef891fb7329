# Variables with types, defaults and a validation.
# run
variable "word" {
  type    = string
  default = "hello"
  validation {
    condition     = strlen(var.word) > 3
    error_message = "The word is too short."
  }
}
variable "ports" {
  type    = list(number)
  default = [1, 2]
}
job "variables" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "test ${var.word}${length(var.ports)} = hello2"]
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
