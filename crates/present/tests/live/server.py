"""A service that computes for each byte that it gets, and answers: `server.py SOCKET MILLISECONDS`."""
import socket
import sys
import time

listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
client, _ = listener.accept()
while client.recv(1):
    end = time.thread_time() + float(sys.argv[2]) / 1000
    while time.thread_time() < end:
        sum(range(2000))
    client.send(b"x")
