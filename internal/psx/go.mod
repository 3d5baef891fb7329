// See psx.go: the module that go-landlock asks for, in the place of which this one is built.
module kernel.org/pub/linux/libs/security/libcap/psx

go 1.26
