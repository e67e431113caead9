from quiver_fast.arrow.run.course import Course

class Endpoint(Course):
    def transfer(self, timeout: float) -> None: ...
