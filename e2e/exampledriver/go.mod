module example.com/exampledriver

go 1.26.0

require (
	github.com/hashicorp/go-plugin v1.8.0
	google.golang.org/grpc v1.84.0
	google.golang.org/protobuf v1.36.12
)
