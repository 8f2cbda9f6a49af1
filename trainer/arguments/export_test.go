package arguments

// CheckBackend refuses a --ddp_backend on a device.
var CheckBackend = checkBackend
