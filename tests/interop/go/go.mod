module quiver-fast/go-amqp-suite

go 1.18

require github.com/Azure/go-amqp v1.0.5
